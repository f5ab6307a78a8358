// Package filelink reads and writes files through symbolic links. It reads only regular files, up to a limit. A
// file that it replaces is complete at any time, and links to it stay. Devices are written directly.
package filelink

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// mostLinks limits the number of links to follow, as in the standard library.
const mostLinks = 255

// Target returns the path of the file that writing to path would create or change. As in a shell, links may
// lead to a missing file.
func Target(path string) (string, error) {
	target := path
	for range mostLinks {
		if real, err := filepath.EvalSymlinks(target); err == nil {
			return real, nil
		}
		to, err := readLink(target)
		if err != nil { // not a link: a new file
			return target, nil
		}
		target = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// readLink returns the path that a link leads to.
func readLink(path string) (string, error) {
	to, err := os.Readlink(path)
	if err != nil || filepath.IsAbs(to) {
		return to, err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(folder, to), err
}

// MkdirAll creates the folder that a path leads to, and its parents. As for files, a link may lead to a missing
// folder.
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
		if info, statErr := os.Stat(target); statErr != nil || !info.IsDir() { // another process may have created it
			return err
		}
	}
	return nil
}
