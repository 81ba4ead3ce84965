// Threads with messages, shared memory and errors; buffers that move.
const { Worker, MessageChannel, isMainThread, parentPort, workerData, threadId } = require('node:worker_threads');
const { once } = require('node:events');

async function main() {
  const shared = new Int32Array(new SharedArrayBuffer(8));
  const workers = [1, 2, 3, 4].map((n) => new Worker(__filename, { workerData: { shared, n } }));
  const answers = await Promise.all(workers.map(async (w) => (await once(w, 'message'))[0]));
  console.log('answers', answers.sort());
  await Promise.all(workers.map((w) => w.terminate()));
  console.log('shared', Atomics.load(shared, 0));

  const failing = new Worker('throw new Error("from the worker")', { eval: true });
  console.log('error', (await once(failing, 'error'))[0].message);
  const exiting = new Worker('process.exit(5)', { eval: true });
  console.log('exit', (await once(exiting, 'exit'))[0]);

  const { port1, port2 } = new MessageChannel();
  const buffer = new Uint8Array([1, 2, 3]).buffer;
  port1.postMessage(buffer, [buffer]);
  const [moved] = await once(port2, 'message');
  console.log('moved', new Uint8Array(moved), buffer.byteLength);
  port1.close();
}

if (isMainThread) {
  main();
} else {
  for (let i = 0; i < 1000; i++) Atomics.add(workerData.shared, 0, 1);
  parentPort.postMessage(`${workerData.n} squared is ${workerData.n ** 2}, thread ${threadId > 0}`);
}
