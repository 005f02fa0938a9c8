import { expect, test } from 'vitest'
import { rank } from './rank.ts'

const finding = (label: string, more: object = {}) => ({
  id: label,
  group: 'g',
  label,
  run: () => {},
  ...more,
})
const found = (labels: readonly string[], text: string) =>
  rank(
    labels.map((label) => finding(label)),
    text,
  ).map(({ label }) => label)

test('finds every word in any order, and puts what begins with the text first', () => {
  const labels = ['Resume lane batch', 'Lane batch', 'Lanes', 'Schedule nightly']
  expect(found(labels, 'lane')).toEqual(['Lane batch', 'Lanes', 'Resume lane batch'])
  expect(found(labels, 'batch resume')).toEqual(['Resume lane batch'])
  expect(found(labels, 'x')).toEqual([])
})

test('searches hints after labels, and takes signs as they are', () => {
  const all = [finding('Now', { hint: 'status overview' }), finding('mail.send')]
  expect(rank(all, 'overview').map(({ label }) => label)).toEqual(['Now'])
  expect(rank(all, 'mail.s').map(({ label }) => label)).toEqual(['mail.send'])
  expect(rank(all, '(').map(({ label }) => label)).toEqual([])
})

test('offers the first choices before anything is typed', () => {
  expect(
    rank([finding('Now', { first: true }), finding('mail.send')], ' ').map(({ label }) => label),
  ).toEqual(['Now'])
})
