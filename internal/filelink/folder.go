package filelink

import (
	"path/filepath"
	"strings"
)

// stdin stands for standard input instead of a file.
const stdin = "-"

// FromFolder returns a path relative to a folder as one from the working directory. Absolute paths stay.
func FromFolder(folder, path string) string {
	if path == "" || path == stdin || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// ToFolder returns a path for a file inside a folder, which may be moved and used from elsewhere: relative if
// it is inside the folder, otherwise absolute.
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
