const SECRET = /sl[kst]_[A-Za-z0-9_-]{20,}/g

/**
 * A text without keys and tokens of Sluice in it. Callers put them where they do not belong, into an address or a wrong
 * field; from there they must not get into logs, answers and the audit.
 */
export function withoutSecrets(text: string): string {
  return text.replace(SECRET, (secret) => `${secret.slice(0, 4)}***`)
}

/** The same for all texts in a value that is JSON. */
export function withoutSecretsIn<T>(value: T): T {
  const text = JSON.stringify(value)
  const clean = text === undefined ? undefined : withoutSecrets(text)
  return clean === undefined || clean === text ? value : (JSON.parse(clean) as T)
}
