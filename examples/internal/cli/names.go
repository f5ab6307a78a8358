package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// repositoryName matches names of model repositories, which other trainers download.
var repositoryName = regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)

// isRepository reports whether a path that does not exist looks like the name of a repository.
func isRepository(path string) bool {
	if !repositoryName.MatchString(path) {
		return false
	}
	_, err := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist)
}

// ModelError returns the error for a model that cannot be loaded. It adds a remedy if the name is one that
// other trainers accept.
func ModelError(flag, path string, err error) error {
	switch info, statErr := os.Stat(path); {
	case errors.Is(statErr, fs.ErrNotExist) && isRepository(path):
		return fmt.Errorf("%s: %s: no such file; nothing is downloaded: fetch a GGUF file of this model, and give its path", flag, path)
	case statErr == nil && info.IsDir() && isTransformers(path), filepath.Ext(path) == ".safetensors":
		return fmt.Errorf("%s: %s is a transformers model: use its GGUF file, which its publisher often offers too, or convert it with llama.cpp's convert_hf_to_gguf.py", flag, path)
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// DataError returns the error for data that cannot be read. It adds a remedy if the name is one that other
// trainers download.
func DataError(flag, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && isRepository(path) {
		return fmt.Errorf("%s: %s: no such file; nothing is downloaded: fetch the Parquet or JSONL files of this data set, and give their paths", flag, path)
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// isTransformers reports whether a folder contains a model of transformers.
func isTransformers(folder string) bool {
	for _, pattern := range []string{"config.json", "*.safetensors", "pytorch_model*.bin"} {
		if files, err := filepath.Glob(filepath.Join(folder, pattern)); err == nil && len(files) > 0 {
			return true
		}
	}
	return false
}
