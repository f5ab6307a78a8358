// Package filelock marks open files as in use with locks that end with the process, even if it is killed.
package filelock
