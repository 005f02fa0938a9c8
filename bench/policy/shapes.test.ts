import { expect, test } from 'vitest'
import { compareShape } from './compare-shape.ts'
import { NAMED_SHAPES, randomShape } from './shapes.ts'

// One seed of each; `node bench/policy.mjs --shapes` plays all shapes, with more.
function play(name: string) {
  return compareShape(NAMED_SHAPES.find((shape) => shape.name === name)!, [1])
}

test('a stream of short jobs of higher priority does not swap models for each of them', () => {
  const { ratios } = play('priority churn')

  expect(ratios.waitMean).toBeLessThanOrEqual(1.2)
  expect(ratios.loads).toBeLessThanOrEqual(1.3)
  expect(ratios.makespanMs).toBeLessThanOrEqual(1.05)
  expect(ratios.waitMax).toBeLessThanOrEqual(1)
})

test('room that waits for a long job to end is used by small jobs meanwhile', () => {
  const { ratios } = play('a long job blocks a large model')

  expect(ratios.waitMean).toBeLessThanOrEqual(1.2)
  expect(ratios.waitP95).toBeLessThanOrEqual(1.2)
})

test('models that are used in turn, one more than fit, are not each unloaded right before they are wanted', () => {
  for (const name of ['one more model than fits, in turn', 'seven in turn where six fit'])
    expect(play(name).missed, name).toEqual([])
})

test('a model that is due lets a busy one finish its queue, within a quantum', () => {
  const { ratios } = play('hot and rare, 80 %')

  expect(ratios.waitMean).toBeLessThanOrEqual(1.2)
  expect(ratios.waitMax).toBeLessThanOrEqual(1)
})

test('a further copy is not loaded for a queue that its model works off soon', () => {
  expect(play('a further copy where others come later').missed).toEqual([])
  expect(play('a further copy on the only large device, 85 %').sluice.loads).toBeLessThanOrEqual(3)
})

test('a further copy does not keep others waiting for longer than without it', () => {
  for (const name of [
    'a further copy on the only large device, 85 %',
    'a further copy of a model with bursts',
  ]) {
    const { ratios } = play(name)
    expect(ratios.waitMean, name).toBeLessThanOrEqual(1)
    expect(ratios.waitMax, name).toBeLessThanOrEqual(1)
  }
})

test('a model that is believed to fill a device fits on it together with its first job', () => {
  const { sluice } = compareShape(randomShape(800_047), [1])

  expect(sluice.unserved).toBe(0)
})

test('random shapes: nothing over capacity, nothing stuck, and the same seed gives the same shape', () => {
  for (let seed = 1; seed <= 6; seed++) {
    const { sluice } = compareShape(randomShape(seed), [1])
    expect(sluice, `seed ${seed}`).toMatchObject({ overcommits: 0, livelock: 0, unserved: 0 })
  }
  expect(randomShape(3).describe(1)).toEqual(randomShape(3).describe(1))
})
