// Package guest holds everything that runs inside a worker's jail: the QuickJS
// engine on wazero, the VM with its memory, the bridge between a cell and the
// supervisor, and the conversation of a worker.
//
// A worker has one Engine, one Image and one VM. The VM's memory is a private
// view of the base image, so that a new run starts from an initialised VM, and
// a parked one is stored as the pages in which it differs from the image.
//
// Nothing here is safe for use by several goroutines: a worker has one thread
// of work.
package guest
