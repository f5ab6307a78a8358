#define WIDTH 4
#define TOKENS 2
#define KERN_SCAN_NAME kern_scan_plain
#define KERN_SCAN_TARGET
#include "selective_scan_body.h"
