import { readFileSync, writeFileSync } from 'node:fs'
import { crc32, deflateSync, inflateSync } from 'node:zlib'

/** Writes a picture of a page anew with a palette of 256 colours: a third of the size, and nobody sees it. */
export function shrinkPng(path) {
  const { width, height, pixels, channels } = decode(readFileSync(path))
  const counts = new Map()
  const colourAt = (at) => (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]
  for (let at = 0; at < pixels.length; at += channels) {
    const colour = colourAt(at)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const palette = choosePalette(counts)
  const places = new Map(palette.map((colour, place) => [colour, place]))
  const rows = Buffer.alloc((width + 1) * height)
  let at = 0
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1, at += channels) {
      const colour = colourAt(at)
      let place = places.get(colour)
      if (place === undefined) {
        place = nearest(palette, colour)
        places.set(colour, place)
      }
      rows[y * (width + 1) + 1 + x] = place
    }
  writeFileSync(path, encode(width, height, palette, rows))
}

/** The most frequent ones that differ by more than the eye sees; what is left goes to the nearest. */
function choosePalette(counts) {
  const sorted = [...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour)
  for (const apart of [0, 6, 12, 20, 32]) {
    const chosen = []
    for (const colour of sorted) {
      if (chosen.length > 256) break
      if (apart === 0 || chosen.every((each) => distance(each, colour) > apart * apart)) chosen.push(colour)
    }
    if (chosen.length <= 256) return chosen
  }
  return sorted.slice(0, 256)
}

function distance(a, b) {
  const red = (a >> 16) - (b >> 16)
  const green = ((a >> 8) & 255) - ((b >> 8) & 255)
  const blue = (a & 255) - (b & 255)
  return red * red + green * green + blue * blue
}

function nearest(palette, colour) {
  let best = 0
  for (let place = 1; place < palette.length; place += 1)
    if (distance(palette[place], colour) < distance(palette[best], colour)) best = place
  return best
}

/** 8 bits a channel, not interlaced, as browsers write them. */
function decode(file) {
  const width = file.readUInt32BE(16)
  const height = file.readUInt32BE(20)
  const channels = file[25] === 6 ? 4 : 3
  const parts = []
  for (let at = 8; at < file.length; ) {
    const length = file.readUInt32BE(at)
    if (file.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(file.subarray(at + 8, at + 8 + length))
    at += length + 12
  }
  const raw = inflateSync(Buffer.concat(parts))
  const stride = width * channels
  const pixels = Buffer.alloc(stride * height)
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)]
    for (let x = 0; x < stride; x += 1) {
      const left = x < channels ? 0 : pixels[y * stride + x - channels]
      const above = y === 0 ? 0 : pixels[(y - 1) * stride + x]
      const corner = x < channels || y === 0 ? 0 : pixels[(y - 1) * stride + x - channels]
      pixels[y * stride + x] = raw[y * (stride + 1) + 1 + x] + predicted(filter, left, above, corner)
    }
  }
  return { width, height, pixels, channels }
}

function predicted(filter, left, above, corner) {
  if (filter === 0) return 0
  if (filter === 1) return left
  if (filter === 2) return above
  if (filter === 3) return (left + above) >> 1
  const guess = left + above - corner
  const [toLeft, toAbove, toCorner] = [left, above, corner].map((each) => Math.abs(guess - each))
  return toLeft <= toAbove && toLeft <= toCorner ? left : toAbove <= toCorner ? above : corner
}

function encode(width, height, palette, rows) {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 3, 0, 0, 0], 8)
  const colours = Buffer.from(palette.flatMap((each) => [each >> 16, (each >> 8) & 255, each & 255]))
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', head),
    chunk('PLTE', colours),
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const framed = Buffer.alloc(body.length + 8)
  framed.writeUInt32BE(data.length, 0)
  body.copy(framed, 4)
  framed.writeUInt32BE(crc32(body), body.length + 4)
  return framed
}
