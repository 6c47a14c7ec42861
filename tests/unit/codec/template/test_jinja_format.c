#include "codec/template/jinja_format.h"

#include "tests/unit/codec/template/rendering.h"

static void percent_formats_are_those_of_python(void **state)
{
    (void)state;
    assert_rendered("{{ '%5.1f|%-4s|%04d|%x' % (2.25, 'é', 42, 255) }}", "  2.2|é   |0042|ff");
    assert_rendered("{{ '%(a)s%%' % {'a': 1} }}", "1%");
    assert_rendered("{{ '%s' % (1, 2) }}", NULL);
    assert_rendered("{{ '%d' % 'x' }}", NULL);
    assert_rendered("{{ '%' % 1 }}", NULL);
}

static void braces_are_those_of_python(void **state)
{
    (void)state;
    assert_rendered("{{ '{0}{0}{a}'.format(1, a=2) }}", "112");
    assert_rendered("{{ '{:>4}|{:*^5}|{:,}|{:.1%}|{{}}'.format('a', 'b', 12345, 0.5) }}",
                    "   a|**b**|12,345|50.0%|{}");
    assert_rendered("{{ '{a[0]}'.format(a=[5]) }}", "5");
    assert_rendered("{{ '{0.__class__}'.format(1) }}", NULL);
    assert_rendered("{{ '{'.format(1) }}", NULL);
    assert_rendered("{{ '{}'.format() }}", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percent_formats_are_those_of_python),
        cmocka_unit_test(braces_are_those_of_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
