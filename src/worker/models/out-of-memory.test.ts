import { expect, test } from 'vitest'
import { asOutOfMemory, outOfMemory, saysOutOfMemory } from './out-of-memory.ts'

/** As PyTorch 2.11 said it on an H200. */
const TORCH =
  'CUDA out of memory. Tried to allocate 150.40 GiB. GPU 0 has a total capacity of 139.80 GiB of which 139.20 GiB is free. ' +
  'Including non-PyTorch memory, this process has 610.00 MiB memory in use. Of the allocated memory 0 bytes is allocated by PyTorch'

test.each([
  TORCH,
  'torch.OutOfMemoryError: CUDA out of memory.',
  'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity)',
  'RuntimeError: CUDA error: out of memory',
  'CUDA error 2 at ggml-cuda.cu:5184: out of memory',
  'ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory',
  'llama_model_load: error loading model: unable to allocate CUDA0 buffer',
  'pycuda._driver.MemoryError: cuMemAlloc failed: out of memory',
  'CUDA_ERROR_OUT_OF_MEMORY: out of memory',
  'RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`',
  'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.',
  'HIP out of memory. Tried to allocate 20.00 MiB',
])('%s: that is a device out of memory', (text) => {
  expect(saysOutOfMemory(text)).toBe(true)
})

test.each([
  'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory',
  'Cannot allocate memory',
  'the process was killed by SIGKILL; when nobody did it, the system ran out of memory',
  'CUDA error: an illegal memory access was encountered',
  'out of memory',
])('%s: that is none', (text) => {
  expect(saysOutOfMemory(text)).toBe(false)
})

test('what PyTorch had and wanted is what the process needs', () => {
  const needed = Math.round(610 * 1024 ** 2 + 150.4 * 1024 ** 3)
  expect(asOutOfMemory(new Error(TORCH), TORCH)).toEqual({ needed })
  expect(asOutOfMemory(new Error('CUDA error: out of memory'), 'CUDA error: out of memory')).toEqual({
    needed: undefined,
  })
})

test('a task says it itself, with or without what it needs', () => {
  const thrown = outOfMemory({ needed: 5, reason: 'the cache does not fit' })
  expect(thrown.message).toBe('the cache does not fit')
  expect(asOutOfMemory(thrown, thrown.message)).toEqual({ needed: 5 })
  expect(asOutOfMemory(outOfMemory(), 'out of memory')).toEqual({ needed: undefined })
  expect(asOutOfMemory(new Error('no'), 'no')).toBeUndefined()
  expect(() => outOfMemory({ needed: Number.NaN })).toThrow(
    /outOfMemory: needed must be a number of bytes, found NaN/,
  )
})
