// Package filelock marks open files as in use, by locks that end with the process,
// however that ends.
package filelock
