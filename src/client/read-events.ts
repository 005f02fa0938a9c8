/** One server-sent event. */
export interface ServerEvent {
  readonly event: string
  /** A reader resumes from this id. Empty if the server sent none. */
  readonly id: string
  readonly data: string
}

/** Servers send something every 15 s. A connection that is silent for three times as long is dead. */
const SILENCE_MS = 45_000

/** Reads the events of a stream until it ends. Throws if it is interrupted or silent. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await withinSilence(reader.read())
      if (done) return
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const event = toEvent(block)
        if (event !== undefined) yield event
      }
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** Sluice's servers write one line per field, and data on one line. */
function toEvent(block: string): ServerEvent | undefined {
  const fields = new Map(
    block.split('\n').map((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')]
    }),
  )
  const data = fields.get('data')
  return data === undefined
    ? undefined
    : { event: fields.get('event') ?? 'message', id: fields.get('id') ?? '', data }
}

async function withinSilence<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the stream is silent')), SILENCE_MS)
  })
  try {
    return await Promise.race([work, silent])
  } finally {
    clearTimeout(timer)
  }
}
