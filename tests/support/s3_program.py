"""moto's server, for S3, which puts one object at a time.

moto 5.2 looks for the object of a conditional put and stores the new one in two steps, between which another thread can do the
same. In S3 exactly one of them wins.
"""

from __future__ import annotations

import sys
from threading import Lock

from moto.s3.responses import S3Response
from moto.server import main

ONE_BY_ONE = Lock()


def put(response: S3Response, *given: object, put_key=S3Response._key_response_put, **named: object) -> object:
    with ONE_BY_ONE:
        return put_key(response, *given, **named)


S3Response._key_response_put = put
main(sys.argv[1:])
