/** Where servers of tests keep their data. */
export function quickFolder(): string
