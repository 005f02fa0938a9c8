export { reportDevices } from '../store/report-devices.ts'
