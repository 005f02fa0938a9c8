import { expect, test } from 'vitest'
import { withoutSecrets, withoutSecretsIn } from './redact.ts'

const random = 'aB3-_'.repeat(9).slice(0, 43)

test.each(['slk_', 'sls_', 'slt_'])(
  'a secret that begins with %s is not shown, wherever it stands',
  (prefix) => {
    expect(withoutSecrets(`/api/v1/keys/${prefix}${random}?a=b`)).toBe(`/api/v1/keys/${prefix}***?a=b`)
    expect(withoutSecrets(`"${prefix}${random}","${prefix}${random}"`)).toBe(`"${prefix}***","${prefix}***"`)
  },
)

test('the beginning of a secret that was cut is not shown either', () => {
  expect(withoutSecrets(`slk_${random.slice(0, 25)}...`)).toBe('slk_***...')
})

test('other texts stay as they are', () => {
  for (const text of ['', 'slk_', 'slk_short', 'a slice of bread', 'slx_'.padEnd(60, 'a')])
    expect(withoutSecrets(text)).toBe(text)
})

test('a value is given back as it is, or with the secrets in its texts hidden', () => {
  const plain = { status: 'queued', at: new Date(0), list: [1, null] }
  expect(withoutSecretsIn(plain)).toBe(plain)
  expect(withoutSecretsIn(undefined)).toBe(undefined)
  expect(withoutSecretsIn({ comment: `use "slk_${'a'.repeat(43)}"`, n: 1 })).toEqual({
    comment: 'use "slk_***"',
    n: 1,
  })
})
