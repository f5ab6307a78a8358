// Package filelink finds the file or the folder that a path leads to by symbolic links, so that who
// replaces or makes it leaves the links.
package filelink

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Target is the path of the file that writing to path would make or change. Links may lead to
// what is not there yet, as a shell takes them.
func Target(path string) (string, error) {
	const most = 255 // links that one follows, as in the standard library
	target := path
	for range most {
		if real, err := filepath.EvalSymlinks(target); err == nil {
			return real, nil
		}
		to, err := os.Readlink(target)
		if err != nil { // no link: a new file
			return target, nil
		}
		if !filepath.IsAbs(to) {
			folder, err := filepath.EvalSymlinks(filepath.Dir(target))
			if err != nil {
				return "", err
			}
			to = filepath.Join(folder, to)
		}
		target = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
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
