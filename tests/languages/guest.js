// A guest in JavaScript: `serve` serves HTTP until a signal asks it to end, `fetch HOST` is its client, `alone` does what needs no
// other host. All output is the same in every run on every machine.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const childProcess = require('child_process');
const cluster = require('cluster');
const crypto = require('crypto');
const dns = require('dns');
const fs = require('fs');
const http = require('http');
const net = require('net');
const os = require('os');
const path = require('path');
const zlib = require('zlib');
const { once } = require('events');
const { pipeline } = require('stream/promises');
const { setTimeout: sleep } = require('timers/promises');

const PORT = 8080;
const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 8);

function serve() {
  let requests = 0;
  const server = http.createServer(async (request, response) => {
    requests += 1;
    const hash = crypto.createHash('sha256');
    let length = 0;
    for await (const chunk of request) {
      hash.update(chunk);
      length += chunk.length;
    }
    if (request.url !== '/slow') {
      response.end(`${request.url} ${length} ${hash.digest('hex').slice(0, 8)}\n`.repeat(1000));
    }
  });
  server.listen(PORT);
  process.once('SIGTERM', (name) => {
    server.close(() => console.log('closed'));
    server.closeAllConnections();
    console.log(name, requests);
  });
}

function exchange(options, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(options, async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve([response.statusCode, Buffer.concat(chunks)]);
    });
    request.on('error', reject);
    request.on('timeout', () => request.destroy(new Error('timed out')));
    request.end(body);
  });
}

async function fetchAll(host) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  const pages = Array.from({ length: 30 }, (_, i) => exchange({ host, port: PORT, path: `/page${i}`, agent }));
  for (const [status, body] of await Promise.all(pages)) {
    console.log(status, body.length, body.toString().split('\n')[0]);
  }
  const post = { host, port: PORT, path: '/sum', method: 'POST', agent };
  console.log((await exchange(post, 'body '.repeat(200000)))[1].toString().split('\n')[0]);
  agent.destroy();
  const start = Date.now();
  await exchange({ host, port: PORT, path: '/slow', timeout: 3000 }).catch((error) => console.log(error.message));
  console.log('after', Math.round((Date.now() - start) / 1000), 's');
  await exchange({ host: 'nobody.invalid', port: PORT }).catch((error) => console.log(error.code));
  await exchange({ host, port: 9 }).catch((error) => console.log(error.code));
}

async function threads() {
  const counters = new Int32Array(new SharedArrayBuffer(8));
  const workers = [1, 2, 3].map((number) => new Worker(__filename, { workerData: { number, counters } }));
  const answers = await Promise.all(workers.map(async (worker) => {
    const answer = once(worker, 'message');
    const end = once(worker, 'exit');
    return [...await answer, ...await end];
  }));
  console.log('threads', JSON.stringify(answers), Atomics.load(counters, 0));
}

function work({ number, counters }) {
  for (let i = 0; i < 1000; i += 1) Atomics.add(counters, 0, 1);
  if (Atomics.add(counters, 1, 1) === 2) Atomics.notify(counters, 1);
  while (Atomics.load(counters, 1) < 3) Atomics.wait(counters, 1, Atomics.load(counters, 1), 1000);
  parentPort.postMessage([number, digest(`thread ${number}`)]);
}

async function processes() {
  console.log(childProcess.execSync('tr a-z A-Z', { input: 'through a pipe' }).toString());
  const shell = childProcess.spawn('sh', ['-c', 'echo out; echo err >&2; kill -TERM $$']);
  const texts = { out: '', err: '' };
  shell.stdout.on('data', (data) => { texts.out += data; });
  shell.stderr.on('data', (data) => { texts.err += data; });
  console.log(JSON.stringify(await once(shell, 'close')), JSON.stringify(texts));
  const child = childProcess.fork(__filename, ['child']);
  child.send({ numbers: [1, 2, 3] });
  const [answer] = await once(child, 'message');
  console.log('child', answer, JSON.stringify(await once(child, 'exit')));
  try {
    childProcess.execFileSync('sleep', ['100'], { timeout: 100 });
  } catch (error) {
    console.log(error.code, error.signal);
  }
  await once(childProcess.spawn('no-such-command'), 'error').then(([error]) => console.log(error.code));
}

function child() {
  process.once('message', ({ numbers }) => {
    process.send(numbers.reduce((a, b) => a + b), () => process.disconnect());
  });
}

async function workers() {
  cluster.setupPrimary({ args: ['member'] });
  const members = [cluster.fork(), cluster.fork()];
  await Promise.all(members.map((member) => once(member, 'listening')));
  const seen = new Set();
  for (let i = 0; i < 10; i += 1) {
    const [, body] = await exchange({ host: '127.0.0.1', port: PORT, agent: false });
    seen.add(body.toString());
  }
  console.log('members that answered', seen.size);
  for (const member of members) {
    member.process.kill('SIGTERM');
    console.log(JSON.stringify(await once(member, 'exit')));
  }
}

function member() {
  http.createServer((_, response) => response.end(`${process.pid}`)).listen(PORT, '127.0.0.1');
}

async function files() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'guest-'));
  const name = path.join(folder, 'file');
  await fs.promises.writeFile(name, 'line\n'.repeat(50000));
  await pipeline(fs.createReadStream(name), zlib.createGzip(), fs.createWriteStream(`${name}.gz`));
  const back = zlib.gunzipSync(fs.readFileSync(`${name}.gz`));
  console.log(fs.readdirSync(folder).join(), back.length, digest(back), fs.statSync(name).size);
  fs.rmSync(folder, { recursive: true });
  console.log(fs.existsSync(folder));
}

async function cryptography() {
  const key = crypto.scryptSync('password', 'salt', 32);
  const cipher = crypto.createCipheriv('aes-256-gcm', key, Buffer.alloc(12));
  console.log(key.toString('hex').slice(0, 8), cipher.update('text', 'utf8', 'hex') + cipher.final('hex'));
  const derive = (salt) => new Promise((done) => {
    crypto.pbkdf2('password', salt, 1000, 8, 'sha256', (_, result) => done(result.toString('hex')));
  });
  console.log((await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map(derive))).join(' '));
  const { publicKey, privateKey } = crypto.generateKeyPairSync('ed25519');
  console.log('verified', crypto.verify(null, Buffer.from('x'), publicKey, crypto.sign(null, Buffer.from('x'), privateKey)));
  console.log('random', crypto.randomBytes(16).length, crypto.randomUUID().length);
}

// Enough for the just-in-time compilers, and for several collections of garbage.
function compute() {
  let sum = 0;
  for (let i = 0; i < 2e7; i += 1) sum = (sum * 31 + i) | 0;
  const objects = new Map();
  for (let i = 0; i < 200000; i += 1) objects.set(i % 5000, { i, text: `text ${i}` });
  console.log('computed', sum, objects.size, objects.get(17).text, /(a+)+b/.test('aaaaaaaaab'));
}

async function timers() {
  const order = [];
  setImmediate(() => order.push('immediate'));
  process.nextTick(() => order.push('tick'));
  Promise.resolve().then(() => order.push('promise'));
  setTimeout(() => order.push('late'), 30);
  setTimeout(() => order.push('early'), 10);
  await sleep(60);
  console.log(order.join());
  process.once('SIGUSR2', () => order.push('signal'));
  process.kill(process.pid, 'SIGUSR2');
  await sleep(20);
  console.log(order.at(-1));
}

async function sockets() {
  const name = path.join(os.tmpdir(), `guest-${process.pid}.sock`);
  const server = net.createServer((socket) => socket.pipe(socket)).listen(name);
  await once(server, 'listening');
  const socket = net.connect(name);
  socket.end('echoed');
  let text = '';
  for await (const chunk of socket) text += chunk;
  server.close();
  console.log(text, (await dns.promises.lookup('localhost', { family: 4 })).address);
}

async function alone() {
  compute();
  for (const part of [threads, processes, workers, files, cryptography, timers, sockets]) await part();
  const missing = await import('node:fs').then((module) => module.promises.open('/no/such/file')).catch((error) => error);
  console.log(missing.code);
}

const ROLES = { serve, fetch: () => fetchAll(process.argv[3]), alone, child, member };
if (isMainThread) ROLES[process.argv[2]]();
else work(workerData);
