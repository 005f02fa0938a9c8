/** A GPU, or a part of one, as `nvidia-smi` shows it. Bytes; null where it does not tell. */
export interface Gpu {
  readonly uuid: string
  /** Its place in the order of the PCI bus, as `CUDA_DEVICE_ORDER=PCI_BUS_ID` counts. Null: not told. */
  readonly index: number | null
  readonly name: string
  /** Upper case, for example `00000000:19:00.0`. Null: not told. */
  readonly bus: string | null
  readonly total: number | null
  readonly used: number | null
  readonly free: number | null
  /** The driver says that it has fallen off the bus, or works no more until it is reset. */
  readonly lost: boolean
  /** It is cut into instances: those are the devices then, not the GPU. */
  readonly mig: boolean
}

const BYTES: Readonly<Record<string, number>> = {
  b: 1,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
  kb: 1000,
  mb: 1000 ** 2,
  gb: 1000 ** 3,
  tb: 1000 ** 4,
}

/**
 * The GPUs in what `nvidia-smi --query-gpu=... --format=csv` prints.
 *
 * Columns are found by their names in the header, whatever their order and whatever others there are: the manual does not
 * promise the output of later versions. Lines before the header (warnings) and lines that are no rows are passed over, and
 * so are rows without a uuid: nothing could be held against them.
 */
export function parseGpus(text: string): Gpu[] {
  const lines = text.split(/\r?\n/).map((line) => line.split(',').map((cell) => cell.trim()))
  const at = lines.findIndex((cells) => cells.some((cell) => columnOf(cell) === 'uuid'))
  if (at < 0) return []
  const header = lines[at]!
  const gpus = new Map<string, Gpu>()
  for (const cells of lines.slice(at + 1)) {
    if (cells.length !== header.length) continue
    const gpu = toGpu(new Map(header.map((title, i) => [columnOf(title), { title, cell: cells[i]! }])))
    if (gpu !== undefined) gpus.set(gpu.uuid, gpu)
  }
  return [...gpus.values()]
}

type Row = ReadonlyMap<string, { readonly title: string; readonly cell: string }>

function toGpu(row: Row): Gpu | undefined {
  const uuid = textIn(row, 'uuid')
  if (uuid === null || !/^(?:GPU|MIG)-\S+$/.test(uuid)) return undefined
  const total = bytesIn(row, 'memory.total')
  const used = bytesIn(row, 'memory.used')
  const index = textIn(row, 'index')
  return {
    uuid,
    index: index !== null && /^\d+$/.test(index) ? Number(index) : null,
    name: textIn(row, 'name') ?? 'GPU',
    bus: textIn(row, 'pci.bus_id')?.toUpperCase() ?? null,
    total,
    used,
    // The driver keeps some for itself (615 MiB of an idle H200): free is less than what is left.
    free: bytesIn(row, 'memory.free') ?? (total === null || used === null ? null : Math.max(0, total - used)),
    lost: [...row.values()].some(({ cell }) => /GPU is lost|requires reset/i.test(cell)),
    mig: /^enabled$/i.test(textIn(row, 'mig.mode.current') ?? ''),
  }
}

/** `memory.total [MiB]` is the column `memory.total`; `gpu_uuid` and `gpu_name` are older names. */
function columnOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/\s*\[.*$/, '')
    .replace(/^gpu_(?=uuid$|name$|bus_id$)/, '')
    .replace(/^bus_id$/, 'pci.bus_id')
}

/** Null for what the driver does not tell: `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!`. */
function textIn(row: Row, column: string): string | null {
  const cell = row.get(column)?.cell ?? ''
  return cell === '' || /^\[.*\]$|^N\/A$|^ERR!?$/i.test(cell) ? null : cell
}

/** The unit is with the value, or else in the header, or else it is MiB, as `nounits` leaves it. */
function bytesIn(row: Row, column: string): number | null {
  const cell = textIn(row, column)
  const match = cell === null ? null : /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(cell)
  if (match === null) return null
  const inTitle = /\[(\w+)\]\s*$/.exec(row.get(column)!.title)?.[1]
  const unit = BYTES[(match[2] || inTitle || 'MiB').toLowerCase()]
  return unit === undefined ? null : Math.round(Number(match[1]) * unit)
}

/** The addresses of GPUs that an error message of `nvidia-smi` calls lost. */
export function parseLostBuses(message: string): string[] {
  const named = message.matchAll(
    /GPU\s*(?:\d+:\s*)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])[^\n]*\b(?:lost|reset)\b/gi,
  )
  return [...named].map((match) => match[1]!.toUpperCase())
}

/** Whether two addresses are the same: the domain is written with four digits or with eight. */
export function isSameBus(a: string, b: string): boolean {
  const short = (bus: string) => bus.toUpperCase().replace(/^0+(?=[0-9A-F]{4}:)/, '')
  return short(a) === short(b)
}

/** A field that this version of the driver does not know, by its error message. */
export function parseUnknownField(message: string): string | undefined {
  return /Field "([\w.]+)" is not a valid field/i.exec(message)?.[1]
}

/**
 * The instances of GPUs in MIG mode, by what `nvidia-smi -L` prints. Their memory is not measured anywhere; their size is in
 * the name of their profile (`1g.10gb`), of which the driver gives out 95 % or more.
 */
export function parseInstances(text: string): Gpu[] {
  const instances: Gpu[] = []
  let parent = 'GPU'
  for (const line of text.split(/\r?\n/)) {
    parent = /^GPU \d+:\s*(.+?)\s*\(UUID:/.exec(line)?.[1] ?? parent
    const match = /^\s*MIG\s+(\S+)\s+Device\s+\d+:\s*\(UUID:\s*(MIG-[^)\s]+)\s*\)/.exec(line)
    if (match === null) continue
    const size = /\.(\d+(?:\.\d+)?)gb\b/i.exec(match[1]!)?.[1]
    instances.push({
      uuid: match[2]!,
      index: null,
      name: `${parent} MIG ${match[1]}`,
      bus: null,
      total: size === undefined ? null : Math.round(Number(size) * 0.95 * 1024 ** 3),
      used: null,
      free: null,
      lost: false,
      mig: false,
    })
  }
  return instances
}
