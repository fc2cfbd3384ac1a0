"""`servable local up | status | down`: the local AWS, for cdk, boto3 and the AWS CLI."""

from servable.project.folder import state_folder
from servable.project.provided import commands

local = commands("servable local", lambda: state_folder())
