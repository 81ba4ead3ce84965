// Compression, digests and ciphers, files, streams, timers, text.
const crypto = require('node:crypto');
const fs = require('node:fs');
const fsp = require('node:fs/promises');
const os = require('node:os');
const path = require('node:path');
const zlib = require('node:zlib');
const { pipeline } = require('node:stream/promises');
const { Readable, Transform } = require('node:stream');
const { promisify } = require('node:util');

async function main() {
  const text = Buffer.from('glove '.repeat(10000));
  for (const [name, pack, unpack] of [['gzip', zlib.gzip, zlib.gunzip], ['brotli', zlib.brotliCompress, zlib.brotliDecompress], ['deflate', zlib.deflate, zlib.inflate]]) {
    const packed = await promisify(pack)(text);
    console.log(name, packed.length < 500, (await promisify(unpack)(packed)).equals(text));
  }

  console.log('sha256', crypto.createHash('sha256').update('abc').digest('hex').slice(0, 16));
  console.log('hmac', crypto.createHmac('sha1', 'k').update('m').digest('base64'));
  console.log('scrypt', (await promisify(crypto.scrypt)('p', 's', 16)).toString('hex'), (await promisify(crypto.pbkdf2)('p', 's', 1000, 8, 'sha512')).toString('hex'));
  const key = crypto.randomBytes(32), iv = crypto.randomBytes(12);
  const c = crypto.createCipheriv('aes-256-gcm', key, iv);
  const sealed = Buffer.concat([c.update('secret'), c.final()]);
  const d = crypto.createDecipheriv('aes-256-gcm', key, iv).setAuthTag(c.getAuthTag());
  console.log('aes', d.update(sealed) + d.final());
  const { publicKey, privateKey } = await promisify(crypto.generateKeyPair)('ed25519');
  console.log('sign', crypto.verify(null, text, publicKey, crypto.sign(null, text, privateKey)), crypto.randomUUID().length);
  console.log('subtle', Buffer.from(await crypto.subtle.digest('SHA-1', text)).length);

  const dir = await fsp.mkdtemp(path.join(os.tmpdir(), 'x-'));
  const file = path.join(dir, 'naïve 漢字.txt');
  await fsp.writeFile(file, 'one\ntwo\n');
  await fsp.appendFile(file, 'three\n');
  await fsp.symlink(file, path.join(dir, 'link'));
  await fsp.copyFile(file, path.join(dir, 'copy'));
  await fsp.rename(path.join(dir, 'copy'), path.join(dir, 'moved'));
  await fsp.chmod(path.join(dir, 'moved'), 0o600);
  console.log('files', (await fsp.readdir(dir)).sort(), (await fsp.stat(path.join(dir, 'moved'))).mode.toString(8), fs.readFileSync(path.join(dir, 'link'), 'utf8').split('\n').length);
  for await (const e of await fsp.opendir(dir)) if (e.isSymbolicLink()) console.log('link', e.name);
  await fsp.rm(dir, { recursive: true });
  console.log('gone', fs.existsSync(dir), process.umask().toString(8));
  const missing = await fsp.readFile('/etc/shadow').catch((e) => e);
  console.log('missing', missing.code);

  const upper = new Transform({ transform(chunk, _, done) { done(null, chunk.toString().toUpperCase()); } });
  await pipeline(Readable.from(['a\n', 'b\n']), upper, zlib.createGzip(), fs.createWriteStream('out.gz'));
  await pipeline(fs.createReadStream('out.gz'), zlib.createGunzip(), fs.createWriteStream('out'));
  console.log('pipeline', JSON.stringify(fs.readFileSync('out', 'utf8')));

  const order = [];
  setTimeout(() => order.push('timeout'), 5);
  setImmediate(() => order.push('immediate'));
  process.nextTick(() => order.push('tick'));
  queueMicrotask(() => order.push('microtask'));
  await new Promise((r) => setTimeout(r, 50));
  console.log(order.join(' '));
  console.log(new Intl.NumberFormat('de-DE').format(1234567.5), new Date(0).toISOString(), Intl.DateTimeFormat().resolvedOptions().timeZone);
  const wait = setInterval(() => {}, 1000);
  console.log(await new Promise((r) => { process.once('SIGUSR2', () => r('signal')); process.kill(process.pid, 'SIGUSR2'); }));
  console.log('no network', await fetch('http://127.0.0.1:8000/').catch((e) => e.cause?.code ?? e.name));
  clearInterval(wait);
  process.stdin.on('end', () => process.stdout.write('stdin ended\n')).resume();
}

main();
