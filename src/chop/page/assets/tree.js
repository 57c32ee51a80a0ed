// The modules of the model as a tree of its nodes. Long lists are split into ranges, so that no level is large.

const MAX_CHILDREN = 60;

function makeGroup(id, label, parent) {
  return { id, label, parent, children: [], byName: new Map(), first: 0, size: 0, isGroup: true };
}

function buildTree() {
  const root = makeGroup("", "model", null);
  nodes.forEach((node, index) => {
    let group = root;
    for (const name of node.scope) {
      if (!group.byName.has(name)) {
        const child = makeGroup(group.id ? `${group.id}.${name}` : name, name, group);
        group.byName.set(name, child);
        group.children.push(child);
      }
      group = group.byName.get(name);
    }
    group.children.push({ index, label: node.label, parent: group, isGroup: false });
  });
  finish(root);
  return root;
}

function finish(group) {
  group.children = group.children.map((child) =>
    child.isGroup && child.children.length === 1 ? only(child) : child,
  );
  group.children.filter((child) => child.isGroup).forEach(finish);
  while (group.children.length > MAX_CHILDREN) group.children = splitIntoRanges(group);
  count(group);
}

// A module with a single child is drawn as that child.
function only(group) {
  let inner = group;
  let label = group.label;
  while (inner.isGroup && inner.children.length === 1) {
    inner = inner.children[0];
    label = `${label}.${inner.label}`;
  }
  inner.parent = group.parent;
  inner.label = label;
  return inner;
}

function splitIntoRanges(group) {
  const length = Math.max(Math.ceil(group.children.length / MAX_CHILDREN), Math.min(MAX_CHILDREN / 2, 30));
  const ranges = [];
  for (let start = 0; start < group.children.length; start += length) {
    const members = group.children.slice(start, start + length);
    const range = makeGroup(
      `${group.id}[${start}:${start + members.length}]`,
      `${members[0].label} … ${members[members.length - 1].label}`,
      group,
    );
    range.children = members;
    members.forEach((member) => (member.parent = range));
    count(range);
    ranges.push(range);
  }
  return ranges;
}

function count(group) {
  group.size = group.children.reduce((sum, child) => sum + (child.isGroup ? child.size : 1), 0);
}

function ancestors(item) {
  const found = [];
  for (let group = item.parent; group; group = group.parent) found.push(group);
  return found;
}

function indicesIn(item) {
  return item.isGroup ? item.children.flatMap(indicesIn) : [item.index];
}
