// Child processes: exec, execFile, spawn, fork with messages, signals, and the
// forms that wait.
const cp = require('node:child_process');
const { promisify } = require('node:util');
const { once } = require('node:events');

if (process.argv[2] === 'child') {
  process.on('message', (m) => {
    process.send({ got: m, args: process.argv.slice(3), connected: process.connected }, () => process.disconnect());
  });
  return;
}

async function main() {
  console.log('exec', (await promisify(cp.exec)('echo $((6 * 7)) | tr 4 5')).stdout.trim());
  console.log('execFile', (await promisify(cp.execFile)(process.execPath, ['-p', '1 + 1'])).stdout.trim());
  const failed = await promisify(cp.exec)('echo err >&2; exit 3').catch((e) => e);
  console.log('code', failed.code, failed.stderr.trim());

  const cat = cp.spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] });
  cat.stdin.end('through a pipe');
  const chunks = [];
  for await (const c of cat.stdout) chunks.push(c);
  console.log('spawn', Buffer.concat(chunks).toString());

  const sleeper = cp.spawn('sleep', ['60'], { detached: true });
  sleeper.kill('SIGTERM');
  console.log('kill', await once(sleeper, 'exit'));
  const late = await promisify(cp.exec)('sleep 60', { timeout: 100 }).catch((e) => e);
  console.log('timeout', late.killed, late.signal);
  const missing = cp.spawn('/no/such/program');
  console.log('missing', (await once(missing, 'error'))[0].code);

  console.log('execSync', cp.execSync('pwd').toString().trim());
  const s = cp.spawnSync('sh', ['-c', 'cat; exit 4'], { input: 'in', encoding: 'utf8' });
  console.log('spawnSync', s.stdout, s.status);

  const child = cp.fork(__filename, ['child', 'a b']);
  child.send({ hello: ['→', 1] });
  const [answer] = await once(child, 'message');
  console.log('fork', JSON.stringify(answer), await once(child, 'exit'));
  const big = cp.fork(__filename, ['child'], { serialization: 'advanced' });
  big.send(Buffer.alloc(1 << 20, 1));
  console.log('large message', (await once(big, 'message'))[0].got.length);
}

main();
