import { isFullBatch, lengthOf, type Submission } from '../engine/submit/submitter.ts'
import { SluiceError } from '../errors.ts'

/**
 * Sends submissions in batches of the largest size that one insert supports. The next batch is prepared while one is
 * in flight.
 *
 * @param make Synchronous where possible, because bulk submission is hot.
 * @returns the results of `send`, in the order of the inputs.
 * @throws what `make` or `send` throws, with the number of inputs stored before it in `details.stored`.
 */
export async function submitInParts<Input, Stored>(
  inputs: Iterable<Input>,
  make: (input: Input, index: number) => Submission | Promise<Submission>,
  send: (part: readonly Submission[]) => Promise<readonly Stored[]>,
): Promise<Stored[]> {
  const stored: Stored[] = []
  let part: Submission[] = []
  let characters = 0
  let sending: Promise<void> = Promise.resolve()
  const sendPart = async () => {
    await sending
    sending = send(part).then((answers) => {
      for (const answer of answers) stored.push(answer)
    })
    sending.catch(() => {}) // awaited later; until then its failure must not count as unhandled
    part = []
    characters = 0
  }
  try {
    let index = 0
    for (const input of inputs) {
      const made = make(input, index++)
      const submission = made instanceof Promise ? await made : made
      const length = lengthOf(submission)
      if (part.length > 0 && isFullBatch(part.length, characters + length)) await sendPart()
      characters += length
      part.push(submission)
    }
    if (part.length > 0) await sendPart()
    await sending
    return stored
  } catch (error) {
    await sending.catch(() => {}) // the batch in flight may still be stored
    throw tellStored(error, stored.length)
  }
}

function tellStored(error: unknown, stored: number): unknown {
  if (!(error instanceof SluiceError)) return error
  return new SluiceError(error.code, error.message, { cause: error, details: { ...error.details, stored } })
}
