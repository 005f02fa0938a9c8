import { isFullBatch, lengthOf, type Submission } from '../engine/submit/submitter.ts'
import { SluiceError } from '../errors.ts'

/**
 * Sends many submissions in parts, as large as one insert may be. One part is on its way while the next is made ready.
 *
 * @param make Not asynchronous where it need not be: bulk submission is hot.
 * @returns what `send` gave, in the order of the inputs.
 * @throws what `make` or `send` throws, with how many of the first inputs had been stored in `details.stored`.
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
    sending.catch(() => {}) // awaited later; until then its failure is no unhandled one
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
    await sending.catch(() => {}) // what is on its way may yet be stored
    throw tellStored(error, stored.length)
  }
}

function tellStored(error: unknown, stored: number): unknown {
  if (!(error instanceof SluiceError)) return error
  return new SluiceError(error.code, error.message, { cause: error, details: { ...error.details, stored } })
}
