#define WIDTH 4
#define TOKENS 2
#define KERN_SCAN_NEXT kern_scan_plain
#include "selective_scan_body.h"
