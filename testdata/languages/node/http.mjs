// A server and its clients over the cell's own loopback, by both families.
import http from 'node:http';
import net from 'node:net';
import dgram from 'node:dgram';
import { once } from 'node:events';

const server = http.createServer(async (req, res) => {
  let body = '';
  for await (const c of req) body += c;
  res.setHeader('x-method', req.method);
  res.end(`${req.url} ${body}`);
});
server.listen(0, 'localhost');
await once(server, 'listening');
const at = `http://localhost:${server.address().port}`;
const answer = await fetch(`${at}/a?b=c`, { method: 'POST', body: 'text' });
console.log(answer.status, answer.headers.get('x-method'), await answer.text());
const many = await Promise.all(Array.from({ length: 20 }, (_, i) => fetch(`${at}/${i}`).then((r) => r.text())));
console.log(many.length, many[19]);
server.closeAllConnections();
server.close();

for (const host of ['127.0.0.1', '::1']) {
  const echo = net.createServer((s) => s.pipe(s)).listen(0, host);
  await once(echo, 'listening');
  const s = net.connect(echo.address().port, host);
  s.end('echo');
  console.log(host, (await once(s, 'data'))[0].toString());
  echo.close();
}

const udp = dgram.createSocket('udp4');
udp.bind(0, '127.0.0.1');
await once(udp, 'listening');
udp.send('datagram', udp.address().port, '127.0.0.1');
console.log((await once(udp, 'message'))[0].toString());
udp.close();
const away = await fetch('http://192.0.2.1/').catch((e) => e.cause.code);
console.log(away);
