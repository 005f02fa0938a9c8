import { SluiceError } from '../errors.ts'
import type { PoolSettings } from '../model/fields/pool.ts'
import type { Provisioner, ProvisionerSetting } from './provisioner.ts'

/**
 * Creates the provisioner of a pool. Its SDK is loaded with the first call, not here.
 *
 * @throws {SluiceError} `INVALID_CONFIG`, which names the invalid option.
 */
export async function createProvisioner(
  kind: PoolSettings['provisioner'],
  setting: ProvisionerSetting,
): Promise<Provisioner> {
  try {
    switch (kind) {
      case 'local':
        return new (await import('./provisioners/local.ts')).LocalProvisioner(setting)
      case 'command':
        return new (await import('./provisioners/command.ts')).CommandProvisioner(setting)
      case 'ecs':
        return new (await import('./provisioners/ecs.ts')).EcsProvisioner(setting)
      case 'kubernetes':
        return new (await import('./provisioners/kubernetes.ts')).KubernetesProvisioner(setting)
      default:
        return kind satisfies never
    }
  } catch (error) {
    // Options come from a config, so invalid ones are config errors.
    if (error instanceof SluiceError && error.code === 'INVALID_ARGUMENT')
      throw new SluiceError('INVALID_CONFIG', error.message, { cause: error })
    throw error
  }
}
