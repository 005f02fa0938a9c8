// Opens Sluice on the database given, which brings its schema up to date, says so and stays.
import { sluice } from 'sluice'

const app = await sluice({ database: process.argv[2] })
console.log('open')
process.stdin.on('end', () => void app.close()).resume()
