import { expect, test } from 'vitest'
import type { ListedJob } from '../../engine/views/job-list.ts'
import { findJobs } from './ps.ts'

const job = (id: string, status: string) => ({ id, status }) as ListedJob

test('lists a job once that stopped running between the two queries', async () => {
  const answers = [
    [job('5', 'running'), job('3', 'running')],
    [job('5', 'queued'), job('4', 'queued'), job('2', 'queued')],
  ]
  const limits: unknown[] = []
  const listJobs = async ({ limit }: { limit?: number }) => {
    limits.push(limit)
    return answers.shift()!
  }
  const found = await findJobs({ listJobs } as never, { limit: 3 }, 4)
  expect(found.map(({ id, status }) => [id, status])).toEqual([
    ['5', 'running'],
    ['3', 'running'],
    ['4', 'queued'],
    ['2', 'queued'],
  ])
  expect(limits).toEqual([4, 4])
})
