// Bounds of WebAssembly's memory, which V8 leaves to faults in a reservation without rights: loads and stores inside and outside,
// with constant offsets, before and after the memory grows, in a worker of its own too, and compiled by each of V8's compilers.
'use strict';
const { Worker, isMainThread } = require('worker_threads');
const { setFlagsFromString } = require('v8');

const PAGE = 65536;
const OFFSETS = [0, 4, PAGE - 4, PAGE, 0x7fffffff, 0xffffffff];

function leb(value) {
  const bytes = [];
  do {
    const low = value % 128;
    value = Math.floor(value / 128);
    bytes.push(value ? low | 128 : low);
  } while (value);
  return bytes;
}

const vector = (items) => [...leb(items.length), ...items.flat()];
const section = (id, body) => [id, ...leb(body.length), ...body];
const text = (name) => vector([...Buffer.from(name)].map((byte) => [byte]));
const code = (body) => { const all = [0, ...body, 0x0b]; return [...leb(all.length), ...all]; };

// A load and a store for each offset, and memory.grow.
function module_() {
  const i32 = 0x7f;
  const types = [[0x60, 1, i32, 1, i32], [0x60, 2, i32, i32, 0]];
  const functions = [], exports = [], bodies = [];
  const add = (name, type, body) => {
    exports.push([...text(name), 0, ...leb(functions.length)]);
    functions.push([type]);
    bodies.push(code(body));
  };
  for (const offset of OFFSETS) {
    add(`load ${offset}`, 0, [0x20, 0, 0x28, 0, ...leb(offset)]);
    add(`store ${offset}`, 1, [0x20, 0, 0x20, 1, 0x36, 0, ...leb(offset)]);
  }
  add('grow', 0, [0x20, 0, 0x40, 0]);
  exports.push([...text('memory'), 2, 0]);
  return new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, vector(types)), ...section(3, vector(functions)), ...section(5, [1, 1, 1, 40]),
    ...section(7, vector(exports)), ...section(10, vector(bodies)),
  ]);
}

function attempt(what) {
  try {
    return String(what());
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

function explore(exports, name) {
  const size = exports.memory.buffer.byteLength;
  const addresses = [0, 1, size - 5, size - 4, size - 3, size, size + 4096, size * 3, 0x10000000, 0x7ffffffc, -PAGE, -4, -1];
  for (const offset of OFFSETS) {
    for (const at of addresses) {
      const load = () => exports[`load ${offset}`](at);
      const before = attempt(load), stored = attempt(() => exports[`store ${offset}`](at, at ^ offset));
      console.log(`${name} ${size}: ${offset} + ${at}: ${before}, ${stored}, ${attempt(load)}`);
    }
  }
}

function explore_all(name) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module_()));
  explore(exports, name);
  for (const pages of [1, 5, 100, 33]) {
    console.log(`${name}: grow by ${pages}: ${exports.grow(pages)}`);
    explore(exports, name);
  }
}

if (isMainThread) {
  explore_all('first tier');
  setFlagsFromString('--no-liftoff');
  explore_all('second tier');
  // Memories that come and go: each is a reservation.
  let sum = 0;
  for (let i = 0; i < 200; i++) {
    const memory = new WebAssembly.Memory({ initial: 1 + i % 3, maximum: 1000 });
    const words = new Uint32Array(memory.buffer);
    sum += words[words.length - 1];
    words.fill(i);
  }
  console.log(`sum ${sum}`);
  new Worker(__filename).on('exit', (code) => console.log(`worker: ${code}`));
} else {
  explore_all('worker');
}
