// Package filelink finds the file that a path leads to by symbolic links, so that who replaces it
// leaves the links.
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
