/** Random numbers that a seed repeats. The generator is sfc32: 128 bits of state, 32 bits a number. */
export class Seeded {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: number) {
    this.#a = seed | 0
    this.#b = Math.floor(seed / 2 ** 32) | 0
    this.#c = 0x9e3779b9 | 0
    // Seeds that differ in one bit are alike in the first numbers.
    for (let round = 0; round < 12; round++) this.next()
  }

  /** In [0, 1). */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum
    this.#c |= 0
    return (sum >>> 0) / 2 ** 32
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.next()
  }

  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next())
  }

  /** An index, each as likely as its weight says. */
  pick(weights: readonly number[]): number {
    let left = this.next() * weights.reduce((sum, weight) => sum + weight, 0)
    for (let index = 0; index < weights.length - 1; index++) {
      left -= weights[index]!
      if (left < 0) return index
    }
    return weights.length - 1
  }
}
