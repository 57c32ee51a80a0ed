// The modules of the model as a tree over its nodes. Long lists are cut into runs, so that no level is large.

const LONGEST = 60;

function makeGroup(id, label, parent) {
  return { id, label, parent, children: [], byName: new Map(), first: 0, size: 0, isGroup: true };
}

function buildTree() {
  const root = makeGroup("", "model", null);
  nodes.forEach((node, place) => {
    let group = root;
    for (const name of node.scope) {
      if (!group.byName.has(name)) {
        const child = makeGroup(group.id ? `${group.id}.${name}` : name, name, group);
        group.byName.set(name, child);
        group.children.push(child);
      }
      group = group.byName.get(name);
    }
    group.children.push({ place, label: node.label, parent: group, isGroup: false });
  });
  finish(root);
  return root;
}

function finish(group) {
  group.children = group.children.map((child) =>
    child.isGroup && child.children.length === 1 ? only(child) : child,
  );
  group.children.filter((child) => child.isGroup).forEach(finish);
  while (group.children.length > LONGEST) group.children = inRuns(group);
  count(group);
}

// A module with one thing in it is drawn as that thing.
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

function inRuns(group) {
  const length = Math.max(Math.ceil(group.children.length / LONGEST), Math.min(LONGEST / 2, 30));
  const runs = [];
  for (let start = 0; start < group.children.length; start += length) {
    const members = group.children.slice(start, start + length);
    const run = makeGroup(
      `${group.id}[${start}:${start + members.length}]`,
      `${members[0].label} … ${members[members.length - 1].label}`,
      group,
    );
    run.children = members;
    members.forEach((member) => (member.parent = run));
    count(run);
    runs.push(run);
  }
  return runs;
}

function count(group) {
  group.size = group.children.reduce((sum, child) => sum + (child.isGroup ? child.size : 1), 0);
}

function ancestors(item) {
  const found = [];
  for (let group = item.parent; group; group = group.parent) found.push(group);
  return found;
}

function placesIn(item) {
  return item.isGroup ? item.children.flatMap(placesIn) : [item.place];
}
