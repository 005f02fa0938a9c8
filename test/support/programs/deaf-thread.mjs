// A heartbeat thread that never gets to beat, as on a machine so busy that it has not been loaded yet.
setInterval(() => {}, 1000)
