import { expect, test } from 'vitest'
import { proxies } from './proxies.ts'

test.each([
  ['10.0.0.5', ['10.0.0.5']],
  ['10.1.0.0/16, ::1', ['10.1.0.0/16', '::1']],
  [
    ['loopback', 'fd00::/8'],
    ['loopback', 'fd00::/8'],
  ],
  ['2001:db8:0:0:0:0:0:1', ['2001:db8:0:0:0:0:0:1']],
])('reads %o', (written, read) => {
  expect(proxies.read(written)).toEqual(read)
})

test.each([
  true,
  1,
  '',
  'everybody',
  '0.0.0.0/0',
  '::/0',
  '10.0.0.0/33',
  '10.0.0',
  '1.2.3.400',
  'a::b::c',
  [],
])('refuses %o', (written) => {
  expect(proxies.read(written)).toBeUndefined()
})
