import { task } from 'sluice'

// Every process of the pool loads this module, so it defines tasks and runs nothing else.
export const countPrimes = task({
  name: 'count-primes',
  execution: 'process',
  module: import.meta.url,
  timeout: '1m',
  run: (input: { from: number; to: number }, ctx) => {
    let primes = 0
    for (let n = Math.max(2, input.from); n < input.to; n++) {
      if (n % 10_000 === 0) ctx.progress((n - input.from) / (input.to - input.from))
      if (isPrime(n)) primes++
    }
    return primes
  },
})

function isPrime(n: number): boolean {
  for (let divisor = 2; divisor * divisor <= n; divisor++) if (n % divisor === 0) return false
  return true
}
