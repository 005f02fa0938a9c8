/**
 * What an object has under a name that a user has chosen. `object[name]` would also find what every object has, such as `constructor` and `toString`, which are
 * allowed as names of lanes, tasks, budgets and models.
 */
export function ownValue<T>(object: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return object !== undefined && Object.hasOwn(object, name) ? object[name] : undefined
}
