/** The variables that give access to our own database and server. Programs do not inherit them: one that needs a database gets its own in `env`. */
export const SECRET_VARIABLES: readonly string[] = [
  'DATABASE_URL',
  'SLUICE_KEY',
  'PGPASSWORD',
  'PGPASSFILE',
  'PGSERVICEFILE',
  'PGSSLPASSWORD',
]

const SECRET = /sl[kst]_[A-Za-z0-9_-]{20,}/g

/**
 * Removes Sluice's keys and tokens from a text. Callers sometimes put them into an address or a wrong field. They must
 * not reach logs, responses or the audit log.
 */
export function withoutSecrets(text: string): string {
  return text.replace(SECRET, (secret) => `${secret.slice(0, 4)}***`)
}

/** Removes secrets from all texts of a JSON value. */
export function withoutSecretsIn<T>(value: T): T {
  const text = JSON.stringify(value)
  const clean = text === undefined ? undefined : withoutSecrets(text)
  return clean === undefined || clean === text ? value : (JSON.parse(clean) as T)
}
