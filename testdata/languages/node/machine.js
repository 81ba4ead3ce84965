// What a program sees of its machine is the cell.
const os = require('node:os');
const v8 = require('node:v8');

console.log('processors', os.cpus().length);
console.log('memory', os.totalmem() / 2 ** 20, os.freemem() <= os.totalmem());
console.log('heap', v8.getHeapStatistics().heap_size_limit / 2 ** 20 < 256);
console.log('host', os.hostname(), os.platform(), os.loadavg(), os.uptime() < 60);
console.log('user', os.userInfo().username, os.userInfo().homedir, os.homedir(), os.tmpdir(), process.cwd());
try {
  console.log('network', os.networkInterfaces());
} catch (e) {
  console.log('network', e.info.syscall, e.info.errno);
}
console.log('streams', process.stdout.isTTY, process.stdin.isTTY, process.stderr.isTTY);
console.log('arguments', process.argv.slice(2), process.env.GIVEN);
