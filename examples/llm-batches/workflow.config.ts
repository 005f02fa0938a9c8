// Summarises documents in batches, as with a language model: a few requests at a time, with a retry when the model is overloaded.
// The run succeeds although the model rejects a few documents.
//   sluice run examples/llm-batches/workflow.config.ts --workflow summaries --input '{ "documents": 60 }'
import { setTimeout as delay } from 'node:timers/promises'
import { defineConfig, fail, task } from 'sluice'

const documents = task({
  name: 'documents',
  run: (input: { count: number }) =>
    Array.from({ length: input.count }, (_, number) => ({ number, text: `document ${number} `.repeat(20) })),
})

/** Stands for a model behind HTTP. It rejects every 7th request once, and every 30th document permanently. */
const summarise = task({
  name: 'summarise',
  lane: 'model',
  timeout: '30s',
  retry: { attempts: 4, backoff: 'exponential', delay: '50ms', maxDelay: '5s' },
  run: async (input: { number: number; text: string }, ctx) => {
    await delay(5, undefined, { signal: ctx.signal })
    if (input.number % 30 === 29) throw fail('the model does not answer this')
    if (input.number % 7 === 3 && ctx.attempt === 1) throw new Error('429: overloaded')
    return { number: input.number, summary: input.text.slice(0, 12).trim(), attempt: ctx.attempt }
  },
})

export const tasks = [documents, summarise]

export default defineConfig({
  lanes: { model: { slots: 4 } },
  workflows: {
    summaries: {
      steps: {
        documents: { task: 'documents', with: { count: '${{ input.documents }}' } },
        batches: {
          workflow: 'one_batch',
          needs: ['documents'],
          batch: { items: '${{ steps.documents.result }}', size: 10 },
          concurrency: 3,
        },
      },
      output: { batches: '${{ size(steps.batches.results) }}', summaries: '${{ steps.batches.results }}' },
    },
    one_batch: {
      steps: {
        summarise: {
          task: 'summarise',
          with_items: '${{ input.items }}',
          with: '${{ item }}',
          strategy: { percent: 90 },
        },
      },
      output: '${{ steps.summarise.results }}',
    },
  },
})
