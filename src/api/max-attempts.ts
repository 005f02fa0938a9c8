/** Jobs at once that one request of a worker may speak about. */
export const MAX_ATTEMPTS = 20_000
