// Package filelink reads and writes the files that paths lead to by symbolic links: regular files are read, within a
// bound; what is replaced is whole at any time, its links stay, and devices are written to.
package filelink

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mostLinks is how many links one follows, as in the standard library.
const mostLinks = 255

// Target is the path of the file that writing to path would make or change. Links may lead to
// what is not there yet, as a shell takes them.
func Target(path string) (string, error) {
	target := path
	for range mostLinks {
		if real, err := filepath.EvalSymlinks(target); err == nil {
			return real, nil
		}
		to, err := readLink(target)
		if err != nil { // no link: a new file
			return target, nil
		}
		target = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// readLink is the path that a link leads to.
func readLink(path string) (string, error) {
	to, err := os.Readlink(path)
	if err != nil || filepath.IsAbs(to) {
		return to, err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(folder, to), err
}

// MkdirAll makes the folder that a path leads to, with those above it. As for files, a link may
// lead to what is not there yet.
func MkdirAll(path string, perm fs.FileMode) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	}
	target, err := Target(path)
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ELOOP}
	}
	if above := filepath.Dir(target); above != target {
		if err := MkdirAll(above, perm); err != nil {
			return err
		}
	}
	if err := os.Mkdir(target, perm); err != nil {
		if info, statErr := os.Stat(target); statErr != nil || !info.IsDir() { // another process may have made it
			return err
		}
	}
	return nil
}
