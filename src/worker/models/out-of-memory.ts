import { SluiceError } from '../../errors.ts'
import { show } from '../../model/argument.ts'

/** How drivers and frameworks say that a device has no memory left. That of the host (`heap out of memory`) is none of them. */
const TEXTS = [
  /\b(?:CUDA|HIP|MPS backend|XPU) out of memory\b/i,
  /\b(?:CUDA|HIP) (?:driver |runtime )?error:? ?(?:\d+ )?[^\n]{0,40}\bout of memory\b/i,
  /\bCUDA_ERROR_OUT_OF_MEMORY\b|\bcudaErrorMemoryAllocation\b|\bhipErrorOutOfMemory\b/,
  /\bcu(?:da)?(?:Malloc|MemAlloc|MemCreate)\w*\b[^\n]{0,80}\bout of memory\b/i,
  /\bCUBLAS_STATUS_ALLOC_FAILED\b|\bCUDNN_STATUS_ALLOC_FAILED\b/,
  /\btorch\.(?:cuda\.)?OutOfMemoryError\b/,
  /\b(?:unable|failed) to allocate (?:CUDA|ROCm|Vulkan)\d* buffer\b/i,
  /\bRESOURCE_EXHAUSTED: Out of memory\b|\bOOM when allocating tensor\b/,
  /\bErrorOutOfDeviceMemory\b|\bVK_ERROR_OUT_OF_DEVICE_MEMORY\b/,
]

/** What PyTorch had and what it wanted: the least that this process needs. */
const IN_USE = /\bthis process has ([\d.]+) (B|KiB|MiB|GiB|TiB) memory in use\b/i
const WANTED = /\bTried to allocate ([\d.]+) (B|KiB|MiB|GiB|TiB)\b/i
const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
}

/** Thrown by a task or by the `load` of a model that found too little memory on its devices. */
export class OutOfMemoryVerdict extends Error {
  override readonly name = 'OutOfMemory'
  readonly needed: number | undefined

  constructor(message: string, needed: number | undefined) {
    super(message)
    this.needed = needed
  }
}

/**
 * `throw outOfMemory()`: the memory of the job's devices did not suffice. Of a task with a budget that is no failure: the
 * estimate is raised, to `needed` bytes on each device where that is given, and the job comes back when that much is free.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`
 */
export function outOfMemory(options: { readonly needed?: number; readonly reason?: string } = {}): Error {
  const { needed, reason = 'out of memory' } = options
  if (needed !== undefined && !(Number.isFinite(needed) && needed >= 0))
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `outOfMemory: needed must be a number of bytes, found ${show(needed)}`,
    )
  return new OutOfMemoryVerdict(reason, needed)
}

/** Whether a text, a line of a program's output for example, says that a device is out of memory. */
export function saysOutOfMemory(text: string): boolean {
  return TEXTS.some((pattern) => pattern.test(text))
}

/**
 * What was thrown, as running out of a device's memory; `undefined` when it is something else.
 *
 * @param text The error's text with its causes.
 */
export function asOutOfMemory(
  thrown: unknown,
  text: string,
): { readonly needed: number | undefined } | undefined {
  // By shape, not by class: it may come from a pool process or another copy of this package.
  if (thrown instanceof Error && thrown.name === 'OutOfMemory') {
    const { needed } = thrown as Partial<OutOfMemoryVerdict>
    return { needed: typeof needed === 'number' && needed >= 0 ? needed : undefined }
  }
  if (!saysOutOfMemory(text)) return undefined
  const had = bytesIn(IN_USE, text)
  const wanted = bytesIn(WANTED, text)
  return { needed: had === undefined || wanted === undefined ? undefined : Math.round(had + wanted) }
}

function bytesIn(pattern: RegExp, text: string): number | undefined {
  const match = pattern.exec(text)
  return match === null ? undefined : Number(match[1]) * UNITS[match[2]!.toLowerCase()]!
}
