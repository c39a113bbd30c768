#include "tests/support/json.h"

TEST_JSON_TEMPLATES(template class)
