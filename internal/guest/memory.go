package guest

// wasmPageBytes is the unit in which linear memory grows.
const wasmPageBytes = 64 << 10

// memoryReserve is what a VM's linear memory may have beyond the limit of the
// QuickJS heap: its stack, static data, the rounding of its allocator, and
// values on their way in and out.
const memoryReserve = 16 << 20

// osPageBytes is the page size that images and resets count in. Every Linux
// that this program runs on has pages of this size, or of a multiple of it
// that divides wasmPageBytes.
const osPageBytes = 4 << 10
