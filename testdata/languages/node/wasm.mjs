// WebAssembly: a module from bytes, its memory, a trap; modules by import.
import { readFile, writeFile } from 'node:fs/promises';

const bytes = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, // magic, version
  1, 7, 1, 96, 2, 127, 127, 1, 127, // type (i32, i32) -> i32
  3, 3, 2, 0, 0, // two functions
  5, 3, 1, 0, 1, // memory of one page
  7, 22, 3, 3, 97, 100, 100, 0, 0, 3, 100, 105, 118, 0, 1, 6, 109, 101, 109, 111, 114, 121, 2, 0, // add, div, memory
  10, 17, 2, 7, 0, 32, 0, 32, 1, 106, 11, 7, 0, 32, 0, 32, 1, 109, 11, // their code
]);
const { instance } = await WebAssembly.instantiate(bytes);
console.log('add', instance.exports.add(40, 2));
try {
  instance.exports.div(1, 0);
} catch (e) {
  console.log('trap', e.message);
}
instance.exports.memory.grow(15);
console.log('memory', instance.exports.memory.buffer.byteLength / 2 ** 20);
new WebAssembly.Memory({ initial: 1, maximum: 65536, shared: true });
console.log('reserved');
await writeFile('mod.mjs', 'export const name = import.meta.url.slice(-7);');
console.log('import', (await import('./mod.mjs')).name, (await readFile('mod.mjs')).length);
