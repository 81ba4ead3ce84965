// A landscape in three.js: heights in octaves, colours by height, normals; written as binary glTF.
import { BufferAttribute, Color, Mesh, MeshStandardMaterial, PlaneGeometry, Scene } from "three"
import { GLTFExporter } from "three/examples/jsm/exporters/GLTFExporter.js"
import { chance } from "./common.js"

const cells = 128, size = 100

// lattice is a square of chance heights, read with smooth steps between them, over and over.
function lattice(side, next) {
  const heights = Float64Array.from({ length: side * side }, next)
  const at = (x, y) => heights[(y % side) * side + (x % side)]
  const smooth = (t) => t * t * (3 - 2 * t)
  return (x, y) => {
    const left = Math.floor(x), top = Math.floor(y), u = smooth(x - left), v = smooth(y - top)
    const upper = at(left, top) * (1 - u) + at(left + 1, top) * u, lower = at(left, top + 1) * (1 - u) + at(left + 1, top + 1) * u
    return upper * (1 - v) + lower * v
  }
}

export async function run() {
  const height = lattice(64, chance(1)), ground = new PlaneGeometry(size, size, cells, cells).rotateX(-Math.PI / 2)
  const place = ground.getAttribute("position"), colors = new Float32Array(3 * place.count), color = new Color()
  for (let i = 0; i < place.count; i++) {
    let y = 0, weight = 12, scale = 0.06
    for (let octave = 0; octave < 6; octave++) {
      y += weight * height((place.getX(i) + size) * scale, (place.getZ(i) + size) * scale)
      weight /= 2
      scale *= 2
    }
    place.setY(i, y)
    color.setHSL(0.6 - y / 50, 0.5, 0.2 + y / 60).toArray(colors, 3 * i)
  }
  ground.setAttribute("color", new BufferAttribute(colors, 3))
  ground.computeVertexNormals()
  ground.computeBoundingBox()
  const scene = new Scene()
  scene.add(new Mesh(ground, new MeshStandardMaterial({ vertexColors: true, roughness: 1 })))
  scene.updateMatrixWorld()
  return new Uint8Array(await new GLTFExporter().parseAsync(scene, { binary: true }))
}
