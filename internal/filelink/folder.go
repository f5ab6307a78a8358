package filelink

import (
	"path/filepath"
	"strings"
)

// stdin stands for standard input where a file is named.
const stdin = "-"

// FromFolder is a path as one that begins in a folder, unless it is absolute.
func FromFolder(folder, path string) string {
	if path == "" || path == stdin || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// ToFolder is a path as a file in a folder has it, so that the folder can be moved and used
// from elsewhere: relative for what is in the folder, absolute for what is not.
func ToFolder(folder, path string) string {
	if path == "" || path == stdin {
		return path
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	base, err := filepath.Abs(folder)
	if err != nil {
		return absolute
	}
	if relative, err := filepath.Rel(base, absolute); err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return relative
	}
	return absolute
}
