# docker build -t chop .
# docker run --rm -v "$PWD:/work" chop demo
FROM python:3.12-slim
COPY pyproject.toml constraints.txt README.md LICENSE /chop/
COPY src /chop/src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c /chop/constraints.txt "/chop[data,search]"
WORKDIR /work
ENTRYPOINT ["ch"]
CMD ["--help"]
