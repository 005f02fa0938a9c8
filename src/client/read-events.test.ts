import { expect, test } from 'vitest'
import { readEvents } from './read-events.ts'

function streamOf(chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })
}

test('reads events however the bytes are cut, and takes comments for what they are', async () => {
  const text =
    'event: log\nid: 1~2\ndata: {"line":"grün: a"}\n\n:\n\nevent: denied\ndata: {"code":"X"}\n\nevent: cut'
  const bytes = new TextEncoder().encode(text)
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.slice(n * size, (n + 1) * size),
    )
    const events = []
    for await (const event of readEvents(streamOf(chunks))) events.push(event)
    expect(events).toEqual([
      { event: 'log', id: '1~2', data: '{"line":"grün: a"}' },
      { event: 'denied', id: '', data: '{"code":"X"}' },
    ])
  }
})
